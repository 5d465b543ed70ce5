# The image of assay: the binary, the libraries of libtorch that it loads and the
# shipped model, over a base with glibc. No shell, no package manager, not root.
#
#   make image                             with docker, podman or buildah
#   make image DEVICE=cuda                 libtorch with CUDA
#
# Layers go from what changes least to what changes most, so that a change of
# code moves the last two alone. amd64 and arm64 are built by the same lines, each
# on a machine of its own kind: the bindings are C++.

ARG GO_IMAGE=docker.io/library/golang:1.26-trixie
ARG BASE_IMAGE=gcr.io/distroless/cc-debian13:nonroot

FROM ${GO_IMAGE} AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3-pip \
 && rm -rf /var/lib/apt/lists/*
ENV ASSAY_CACHE=/opt/assay LIBTORCH="" GOFLAGS=-trimpath GOTOOLCHAIN=local PIP_BREAK_SYSTEM_PACKAGES=1
WORKDIR /src

# libtorch, and gotch fitted to it: remade only when the set-up changes.
COPY go.mod go.sum ./
COPY rewardmodel/encoder/setup rewardmodel/encoder/setup
ARG DEVICE=cpu
RUN case "$DEVICE" in \
      cpu)  mkdir /opt/cuda ;; \
      cuda) pip install --no-cache-dir --target /opt/cuda \
              "torch==$(sed -n 's/.*torchVersion = "\(.*\)"/\1/p' rewardmodel/encoder/setup/pins.go)" ;; \
      *)    echo "DEVICE=$DEVICE: give cpu or cuda" >&2; exit 1 ;; \
    esac
RUN if [ -d /opt/cuda/torch ]; then export LIBTORCH=/opt/cuda/torch; fi \
 && GOWORK=off go run ./rewardmodel/encoder/setup

COPY . .
RUN go build -buildvcs=auto -ldflags "-s -w -r /usr/lib/assay" -o /out/bin/assay ./sidecar
# What the binary names as needed; CUDA's libraries also load each other by name
# at run time, so that all of them come along. No symbol table is ever looked at.
RUN mkdir -p /out/lib /out/data /out/doc && cp LICENSE NOTICE /out/doc/ \
 && ldd /out/bin/assay | awk '$3 ~ "^/opt/" { print $3 }' | xargs -I{} cp -L {} /out/lib/ \
 && find /opt/cuda -path '*/nvidia/*' -name '*.so*' -exec cp -L {} /out/lib/ \; \
 && strip --strip-unneeded /out/lib/*.so*
RUN cd .ci/sbom && GOWORK=off go run . -model /src/models/default -lib /out/lib /out/bin/assay > /out/doc/assay.cdx.json

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="assay" \
      org.opencontainers.image.description="Compliance rewards and witness spans for the responses of language models" \
      org.opencontainers.image.source="https://github.com/assay-ai/assay" \
      org.opencontainers.image.documentation="https://github.com/assay-ai/assay/tree/main/docs" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/lib/ /usr/lib/assay/
COPY models/default/ /usr/share/assay/models/default/
COPY --from=build --chown=65532:65532 /out/data/ /var/lib/assay/
COPY --from=build /out/bin/assay /usr/bin/assay
COPY --from=build /out/doc/ /usr/share/doc/assay/

# The root file system may be read-only: only /var/lib/assay (streams, feedback,
# checkpoints) and /tmp are written to.
ENV ASSAY_MODEL=/usr/share/assay/models/default \
    ASSAY_DATA_DIR=/var/lib/assay \
    GOTCH_CACHE=/tmp/gotch
USER 65532:65532
WORKDIR /var/lib/assay
VOLUME /var/lib/assay
EXPOSE 8080 4222
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=3s --start-period=30s CMD ["/usr/bin/assay", "health"]
ENTRYPOINT ["/usr/bin/assay"]
CMD ["serve"]
ARG VERSION=devel
ARG REVISION=unknown
LABEL org.opencontainers.image.version="${VERSION}" org.opencontainers.image.revision="${REVISION}"
