//! Worlds of two hosts: what the closed forms say of slow start, and what survives loss.
