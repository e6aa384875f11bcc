#!/usr/bin/env bash
# What a container of the image runs: a driver or an executor, as Spark asks for on Kubernetes, else a command of Airflow.
# The first two are what the entrypoint of Spark's own images does, with the Spark of the environment that is first on the PATH.
set -euo pipefail

case "${1:-}" in
driver)
    shift
    set -- spark-submit \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
        --deploy-mode client \
        "$@"
    ;;
executor)
    options=()
    for ((number = 0; ; number++)); do
        option="SPARK_JAVA_OPT_$number"
        [[ -v "$option" ]] || break
        options+=("${!option}")
    done
    SPARK_HOME=$(python -c 'import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec("pyspark").origin).parent)')
    # Workers of another Python (spark.executor_python) find PySpark below it.
    export SPARK_HOME
    set -- "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" \
        "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "$SPARK_HOME/jars/*" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    set -- airflow "$@"
    ;;
esac

if command -v tini >/dev/null; then
    set -- tini -s -- "$@"
fi
exec "$@"
