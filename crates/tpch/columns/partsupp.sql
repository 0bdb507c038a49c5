ps_partkey BIGINT,
ps_suppkey BIGINT,
ps_availqty BIGINT,
ps_supplycost DECIMAL(15, 2),
ps_comment VARCHAR
