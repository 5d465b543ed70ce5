"""The asynchronous client, from which `_sync` is generated."""
