# The image that docker-compose.yaml runs: Airflow, Spark's driver and Tidegate from the one lock, on Java 17.
# It could not be built where it was written (no container runtime there): read it as a starting point.
FROM python:3.12-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 50000 --gid 0 --create-home airflow \
    && install --directory --owner airflow --group 0 /opt/tidegate /opt/airflow /certificates /spark-events

USER airflow
WORKDIR /opt/tidegate
ENV PATH=/home/airflow/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TIDEGATE_CACHE=/opt/tidegate/.cache \
    TIDEGATE_PROJECT=/opt/tidegate

# Packages first: they change least, and this layer is the large one. The last two are for Airflow's Postgres.
COPY --chown=airflow:0 requirements.txt .
RUN python -m venv /home/airflow/venv \
    && pip install --no-cache-dir --compile -r requirements.txt psycopg2-binary==2.9.13 asyncpg==0.32.0

COPY --chown=airflow:0 . .
# The jars are fetched and the class data archive is created here, so that a container starts without a network.
RUN pip install --no-cache-dir --compile --no-deps --no-build-isolation -e . \
    && tidegate setup

ENTRYPOINT ["/opt/tidegate/deploy/entrypoint.sh"]
