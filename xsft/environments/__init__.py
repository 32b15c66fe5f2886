"""The pinned environments of xpk, MaxText, the engine and the compiler: built by uv, and asked for answers."""
