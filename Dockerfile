# Two images of one build:
#   docker build --target server -t redis-mq-server .     a Redis server with the module
#   docker build --target tools -t redis-mq .             the command line
FROM rust:1-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends libclang-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY . .
RUN cargo build --locked --release -p redis-mq -p redis-mq-cli

FROM redis:7-bookworm AS server
COPY --from=build /build/target/release/libredis_mq.so /usr/lib/redis/modules/libredis_mq.so
COPY redis.conf /usr/local/etc/redis/redis.conf
# In a container's own network the server listens to its neighbours.
CMD ["redis-server", "/usr/local/etc/redis/redis.conf", "--bind", "* -::*", "--protected-mode", "no", "--dir", "/data"]

FROM debian:bookworm-slim AS tools
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /build/target/release/redis-mq /usr/bin/redis-mq
USER nobody
ENTRYPOINT ["redis-mq"]
