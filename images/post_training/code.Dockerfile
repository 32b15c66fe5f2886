# The code image: the user's own MaxText, Tunix and code over a deps image, in layers of kilobytes. README.md has the
# arguments and what the context holds.
ARG DEPS_IMAGE
FROM ${DEPS_IMAGE}
USER 0:0

# Only files that differ from the installed package are written, so only they are in the layer.
RUN --mount=type=bind,source=place.py,target=/run/place.py \
    --mount=type=bind,source=tunix,target=/run/tree \
    python3 /run/place.py /run/tree tunix
RUN --mount=type=bind,source=place.py,target=/run/place.py \
    --mount=type=bind,source=maxtext,target=/run/tree \
    python3 /run/place.py /run/tree maxtext

# The programs of xsft that run in it; a pod checks their digest.
COPY xsft/ /usr/share/xsft/programs/

ENV PYTHONPATH=/app/code
COPY code/ /app/code/

# Root, because XPK's TPU containers have to open the chips' device files: README.md, "Root".
ARG RUN_AS=0:0
USER ${RUN_AS}

ARG REVISION=""
ARG DIRTY=""
ARG MAXTEXT_SOURCE=pypi
ARG EVALUATE_SHA256=""
LABEL org.opencontainers.image.revision="${REVISION}" \
    dev.xsft.dirty="${DIRTY}" \
    dev.xsft.kind="code" \
    dev.xsft.evaluate.sha256="${EVALUATE_SHA256}" \
    dev.xsft.maxtext.source="${MAXTEXT_SOURCE}"
