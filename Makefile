# Needs make, git, a Python >= 3.11 and the package indexes; nothing is installed outside .venv and xsft's cache folder.
.DEFAULT_GOAL := check
.PHONY: setup
setup:
	@.ci/bootstrap
