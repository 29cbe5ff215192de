//! A connection of a server.
