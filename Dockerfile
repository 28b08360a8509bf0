# One image for every process of the fleet, and for the two brokers beside it: `docker-compose.yml` says which runs where.
# It is set up as a clone is on a bare Debian: packages by lock and hash, Spark's and Kafka's jars by checksum.
FROM debian:bookworm-slim
COPY . /opt/landfall
WORKDIR /opt/landfall
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ca-certificates mosquitto python3 python3-venv \
    && python3 -m deploy.setup run \
    && .venv/bin/python -m deploy.setup.kafka \
    && rm -rf .cache/ivy .cache/tmp .cache/lock /var/lib/apt/lists/* /tmp/* ~/.cache
ENV PATH=/opt/landfall/.venv/bin:$PATH PYTHONUNBUFFERED=1
CMD ["landfall", "--help"]
