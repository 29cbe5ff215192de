//! A connection of a client.
