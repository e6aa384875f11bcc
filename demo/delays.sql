-- The expected tables of the delays pipeline, beside those of flights.sql, for `weather_records` and `airlines_records`.

CREATE TABLE weather AS
SELECT origin, instant(time_hour) AS hour, timezone('America/New_York', hour)::DATE AS day,
       TRY_CAST(wind_speed AS DOUBLE) AS wind, TRY_CAST(visib AS DOUBLE) AS visibility, instant(published_on) AS published_on
FROM weather_records
QUALIFY row_number() OVER (PARTITION BY origin, time_hour ORDER BY published_on DESC, _at1::BIGINT DESC, _at2 DESC, _at3::INT DESC) = 1;

CREATE TABLE airlines AS SELECT carrier, name, instant(published_on) AS published_on FROM airlines_records;

CREATE TABLE delays AS
SELECT day, carrier, any_value(name) AS airline, count(*) AS flights, avg(dep_delay) AS mean_delay,
       max(strongest) AS wind, min(least) AS visibility
FROM silver
LEFT JOIN (SELECT origin, day, max(wind) AS strongest, min(visibility) AS least FROM weather GROUP BY ALL) USING (origin, day)
LEFT JOIN airlines USING (carrier)
GROUP BY day, carrier;
