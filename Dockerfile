# One image for every process of the fleet, and for the two brokers beside it: `docker-compose.yml` says which runs where.
# It is set up as a clone is on a bare Debian: packages by lock and hash, Spark's and Kafka's jars by checksum.
FROM debian:bookworm-slim
COPY . /opt/landfall
WORKDIR /opt/landfall
RUN chmod -R a+rX . \
    && apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ca-certificates mosquitto python3 python3-venv \
    && python3 -m deploy.setup run \
    && .venv/bin/python -m deploy.setup.kafka \
    && rm -rf .cache/ivy .cache/tmp .cache/lock /var/lib/apt/lists/* /tmp/* ~/.cache
# A volume that is mounted for the first time takes the owner and the mode of its folder here.
RUN useradd --uid 10001 --create-home landfall \
    && umask 027 \
    && for name in sim hq tokyo singapore sydney albatross cormorant mosquitto kafka fanout analytics projector api dashboards; \
       do mkdir -p "/fleet/settings/$name" "/fleet/$name"; done \
    && mkdir /fleet/hq/log /fleet/tables /fleet/checkpoint /fleet/scratch /fleet/serving \
    && chown -R landfall:landfall /fleet
USER landfall
ENV PATH=/opt/landfall/.venv/bin:$PATH PYTHONUNBUFFERED=1
CMD ["landfall", "--help"]
