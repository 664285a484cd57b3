"""The studio: train, validate and understand models in the browser, on this computer only.

`api` is the typed interface over HTTP, `pages` the user interface on top of the same functions. Each run is a
separate process (`worker`), which writes its progress to SQLite (`store`). Server and pages only read it, so that runs
continue without them.
"""
