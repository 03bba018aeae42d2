"""Replies that real servers have been seen to send (`fixtures/`), and a server that sends them."""
