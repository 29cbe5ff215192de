//! Users against a server that is a function.
