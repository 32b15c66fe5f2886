"""MaxText's command line, log lines, chat templates, progress and metrics."""
