# The server with the models of the package: docs/deploy.md says how to build and run it.
FROM python:3.11-slim-bookworm AS build
WORKDIR /source
COPY setup.py pyproject.toml MANIFEST.in README.md LICENSE ./
COPY keras_attention keras_attention
COPY saved_models saved_models
RUN python -m venv /opt/keras-attention && \
    /opt/keras-attention/bin/pip install --no-cache-dir ".[serve,ctranslate2]"

FROM python:3.11-slim-bookworm
COPY --from=build /opt/keras-attention /opt/keras-attention
# Compiled programs and models of the hub are kept in /cache; only this folder and /tmp are written to.
RUN install --directory --owner=10001 --group=10001 --mode=0700 /cache
ENV PATH=/opt/keras-attention/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/cache \
    KERAS_ATTENTION_CACHE=/cache/keras_attention \
    MPLCONFIGDIR=/tmp/matplotlib
USER 10001:10001
WORKDIR /cache
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=5)"]
ENTRYPOINT ["keras-attention", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD []
