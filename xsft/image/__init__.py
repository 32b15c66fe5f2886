"""The container image: its dependencies, built once by Docker; its code, a layer added through the registry's API; the
lock that names its digest.

Decisions are pure and stand apart from what touches the world by module: pyproject.toml, "The image's decisions".
"""
