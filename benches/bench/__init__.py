"""Weir beside its peers: workloads, servers, clients, the kernel's figures, and reports."""
