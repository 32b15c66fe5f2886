"""The only door to the world: processes, clock, environment, files, buckets, HTTP."""
