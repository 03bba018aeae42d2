"""Looking into a run: the requests that it sent, and what filled their context."""
