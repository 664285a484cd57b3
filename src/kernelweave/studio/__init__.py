"""The studio: train, validate and understand models in the browser, on this machine alone.

`api` is the typed interface over HTTP, `pages` the user interface on top of the same functions. A run is a process
of its own (`worker`), which writes what it does to SQLite (`store`); the server and its pages only look there, so runs
outlive them.
"""
