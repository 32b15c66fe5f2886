"""What a CPU job does in its pod, whose image has no xsft: programs that are sent with the job's command. Only the
standard library at the top; MaxText itself needs google-cloud-storage and huggingface_hub, so every image has them.
"""
