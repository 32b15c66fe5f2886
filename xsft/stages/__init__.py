"""The stages around a training: convert, evaluate, export and serve, on this machine and on a cluster."""
