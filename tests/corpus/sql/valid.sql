SELECT a, n + 1 AS v FROM t WHERE n > 3 AND a IS NOT NULL
SELECT extract(year FROM ts) AS v, date_part('month', ts) AS w FROM t
SELECT ts + INTERVAL '1 day 02:03:04' AS v, ts - INTERVAL '2' HOUR AS w FROM t
SELECT CAST(n AS DECIMAL(20, 4)) AS v, a::varchar AS w, TRY_CAST(a AS DATE) AS x FROM t
SELECT CAST(st AS STRUCT<f: BIGINT, g: TEXT>) AS v FROM t
SELECT {'f': n, 'g': a} AS v, struct(n AS k) AS w, named_struct('q', n) AS x FROM t
SELECT li[1] AS v, li[1:2] AS w, m['k'] AS x, st['f'] AS y, st.f AS z FROM t
SELECT transform(li, e -> e + 1) AS v, filter(li, (e, i) -> e > i) AS w FROM t
SELECT CASE WHEN n > 1 THEN 'a' WHEN a LIKE '%x_' THEN 'b' ELSE 'it''s' END AS v FROM t
SELECT regexp_replace(a, '(x)', '[\1]', 'g') AS v, a ~ '^x$' AS w, a SIMILAR TO 'x|y' AS x FROM t
SELECT json_value('{"k": {"l": 1}}', '$.k.l') AS v, get_json_object('{"k": 1}', '$.k') AS w FROM t
SELECT to_char(ts, '%Y-%m-%d') AS v, to_timestamp('2024-01-02', '%Y-%m-%d') AS w FROM t
SELECT arrow_cast(n, 'Decimal128(20, 2)') AS v, arrow_cast(ts, 'Timestamp(Microsecond, None)') AS w FROM t
SELECT trim(BOTH 'x' FROM a) AS v, substring(a FROM 1 FOR 2) AS w, overlay(a PLACING 'y' FROM 1) AS x FROM t
SELECT position('x' IN a) AS v, a || 'y' || E'\n' AS w, N'abc' AS x, r'\d' AS y FROM t
SELECT * EXCEPT (a), a AS "odd `name" FROM t AS u WHERE u.n IN (1, 2, 7) OR u.n BETWEEN 1 AND 9
SELECT * REPLACE (upper(a) AS a) FROM (SELECT a, n FROM t) AS s
WITH c AS (SELECT a AS v FROM t) SELECT v FROM c UNION ALL SELECT a FROM t
SELECT unnest(li) AS v, a FROM t
SELECT date_trunc('hour', ts) AS v, date_bin(INTERVAL '15 minutes', ts) AS w FROM t
SELECT n << 3 AS v, n & 7 AS w, ~n AS x, n % 3 AS y, n / 2 AS z, -n AS u FROM t
SELECT coalesce(a, 'x') AS v, nullif(n, 7) AS w, greatest(n, 1) AS x, n IS DISTINCT FROM 3 AS y FROM t
SELECT "o`dd" AS v, "canary()" AS w FROM t -- a comment
SELECT X'4142' AS v, 1.5e3 AS w, [1, 2] AS x, (n + 1) * 2 AS y, current_timestamp AS z FROM t
SELECT map_keys(m) AS v, map('k', n) AS w, from_json('{"f": 1}', 'f INT') AS x FROM t
