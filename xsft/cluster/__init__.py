"""A Kubernetes cluster: access, objects and their fields, create once, delete by UID, logs."""
