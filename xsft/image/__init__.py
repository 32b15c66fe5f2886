"""The container image: what is built, what it is called, and where its digest is kept. Pure."""
