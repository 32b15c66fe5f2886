"""The programs of a CPU job. Its pod's image has no xsft, so they are sent with the job's command. Only the
standard library at the top; MaxText itself needs google-cloud-storage and huggingface_hub, so every image has them.
"""
