"""Programs for other interpreters and for pods. They import only each other and the standard library."""
