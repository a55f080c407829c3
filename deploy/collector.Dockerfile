# The collector for GPU nodes in containers. Build from the repository's root:
#   docker build -f deploy/collector.Dockerfile -t gpuhour-collector .
# NVIDIA's library comes from the host, put in by its container runtime.
FROM golang:1.26-trixie AS build
WORKDIR /src
# Cgo on: NVML is reached through it. The other services are built without, see Dockerfile.
ENV CGO_ENABLED=1 GOWORK=off
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN go build -trimpath -buildvcs=false -o /gpuhour ./cmd/gpuhour

FROM debian:trixie-slim
COPY --from=build /gpuhour /usr/local/bin/gpuhour
# All GPUs with all their slices, and of the driver only what monitoring takes.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=utility NVIDIA_MIG_MONITOR_DEVICES=all
ENV GPUHOUR_HTTP_LISTEN=0.0.0.0:9401
EXPOSE 9401
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["gpuhour", "health"]
ENTRYPOINT ["gpuhour"]
CMD ["collector", "--spool", "/var/lib/gpuhour/spool"]
