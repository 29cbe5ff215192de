"""Weir beside its peers: what is served, who serves it, who asks, what is read off the kernel, what is reported."""
