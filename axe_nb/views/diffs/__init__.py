"""Two trees of runs compared: aligned, with the first divergence and every change. Pure."""
