"""How a run is put on a cluster: xpk and its arguments, the patched manifest, the audit, jobs and servers."""
