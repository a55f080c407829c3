# The collector for GPU nodes in containers. Build from the repository's root:
#   docker build -f deploy/collector.Dockerfile -t gpuhour-collector .
# NVIDIA's library comes from the host, put in by its container runtime. On a node with Docker and NVIDIA's container toolkit:
#   docker run -d --name gpuhour-collector --restart always --stop-timeout 60 --gpus all --hostname gpu-07 \
#     --read-only --cap-drop ALL --security-opt no-new-privileges -p 127.0.0.1:9401:9401 -v /var/lib/gpuhour-collector:/var/lib/gpuhour-collector \
#     -v /etc/gpuhour:/etc/gpuhour:ro -e GPUHOUR_NATS_URL=tls://nats.example.net:4222 -e GPUHOUR_NATS_NKEY=/etc/gpuhour/nats.nk gpuhour-collector
# --hostname (or --node behind the command) is the node's name: without it, it would be the container's, another one each time.
# MIG slices that tenants hold are shown with --cap-add SYS_ADMIN -e NVIDIA_MIG_MONITOR_DEVICES=all, the one never without the other.
# Without root: --user, with a spool and an nkey file that this user owns.
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
# All GPUs, and of the driver only what monitoring takes. NVIDIA_MIG_MONITOR_DEVICES is not set here: NVIDIA's runtime starts no container
# that has it without the capability SYS_ADMIN.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=utility
ENV GPUHOUR_HTTP_LISTEN=0.0.0.0:9401
EXPOSE 9401
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["gpuhour", "health"]
ENTRYPOINT ["gpuhour"]
CMD ["collector", "--data", "/var/lib/gpuhour-collector"]
