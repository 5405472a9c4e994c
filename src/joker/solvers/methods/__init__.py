"""The methods of a solve: each owns its step, its defaults and its memory."""
