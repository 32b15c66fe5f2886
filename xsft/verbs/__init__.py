"""One module for each verb of the command line: its arguments, its call, its text and its JSON."""
