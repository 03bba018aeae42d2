"""Sessions: run handles, the event loop's thread, views and approval by the user."""
