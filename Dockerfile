# The image of assay: the binary, the libraries of libtorch that it loads, the
# shipped model and all license texts, on a base with glibc. No shell, no package
# manager, not root.
#
#   make image                             with docker, podman or buildah
#   make image DEVICE=cuda                 libtorch with CUDA
#   make image TRAIN=no                   without libtorch: it only scores
#
# Layers are ordered by how often they change, so that a change of code replaces
# only the last ones. amd64 and arm64 use the same instructions, each on a machine
# of that architecture: the bindings are C++.

# Both bases are tags, which a registry can move. Pin them by digest, as
# docs/image.md describes: --build-arg BASE_IMAGE=NAME:TAG@sha256:DIGEST.
ARG GO_IMAGE=docker.io/library/golang:1.26-trixie
ARG BASE_IMAGE=gcr.io/distroless/cc-debian13:nonroot

FROM ${GO_IMAGE} AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3-pip \
 && rm -rf /var/lib/apt/lists/*
ENV ASSAY_CACHE=/opt/assay LIBTORCH="" GOFLAGS=-trimpath GOTOOLCHAIN=local PIP_BREAK_SYSTEM_PACKAGES=1
WORKDIR /src

# libtorch, each wheel verified against its pinned SHA-256, and gotch fitted to
# it: repeated only when the set-up changes.
COPY go.mod go.sum ./
COPY clients/go/go.mod clients/go/
COPY rewardmodel/encoder/setup rewardmodel/encoder/setup
ARG DEVICE=cpu
RUN GOWORK=off go run ./rewardmodel/encoder/setup -device "$DEVICE"

COPY . .
RUN go build -buildvcs=auto -ldflags "-s -w -r /usr/lib/assay" -o /out/bin/assay ./sidecar
# The set-up built the library of gotch's wrappers, and unpacked exactly the libraries that this loads, and their
# license texts. Symbol tables are never read.
# The model is readable for the user of the image, whatever the umask of the checkout.
RUN mkdir -p /out/lib /out/data /out/doc /out/licenses && cp LICENSE NOTICE /out/doc/ \
 && cp -r models/default /out/model && chmod -R u=rwX,go=rX /out/model \
 && find /opt/assay/gotch-*/lib /opt/assay/libtorch-*/torch/lib /opt/assay/libtorch-*/nvidia -type f -exec cp {} /out/lib/ \; \
 && strip --strip-unneeded /out/lib/*.so* \
 && cp -r /opt/assay/libtorch-*/licenses /out/licenses/native
# Without libtorch, RoBERTa and BERT score in bf16, on the threads of OpenMP.
ARG TRAIN=yes
RUN [ "$TRAIN" = yes ] || find /out/lib -type f ! -name 'libgomp*' -delete
# Fails when a linked module has no license file.
RUN cd .ci/sbom && GOWORK=off go run . -model /src/models/default -lib /out/lib \
      -source /src -licenses /out/licenses /out/bin/assay > /out/doc/assay.cdx.json

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="assay" \
      org.opencontainers.image.description="Compliance rewards and witness spans for the responses of language models" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/lib/ /usr/lib/assay/
COPY --from=build /out/model/ /usr/share/assay/models/default/
COPY --from=build --chown=65532:65532 /out/data/ /var/lib/assay/
COPY --from=build /out/licenses/ /usr/share/licenses/assay/
COPY --from=build /out/bin/assay /usr/bin/assay
COPY --from=build /out/doc/ /usr/share/doc/assay/

# The root file system may be read-only: assay writes only to /var/lib/assay
# (streams, feedback, checkpoints, models as they are computed with) and /tmp.
ENV ASSAY_MODEL=/usr/share/assay/models/default \
    ASSAY_DATA_DIR=/var/lib/assay \
    ASSAY_PACKED_WEIGHTS=/var/lib/assay/weights \
    GOTCH_CACHE=/tmp/gotch
ARG TRAIN=yes
ENV ASSAY_TRAIN=$TRAIN
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
ARG BASE_NAME=""
ARG BASE_DIGEST=""
LABEL org.opencontainers.image.version="${VERSION}" org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE_NAME}" org.opencontainers.image.base.digest="${BASE_DIGEST}"
