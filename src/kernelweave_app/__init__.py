"""The application: command line, runs, reports and studio. It imports the library; the library does not know it."""
