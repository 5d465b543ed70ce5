# Generated from _async/__init__.py by unasync.py: edit that file instead.
"""The synchronous client, generated from `_async`."""
