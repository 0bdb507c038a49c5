c_custkey BIGINT,
c_name VARCHAR,
c_address VARCHAR,
c_nationkey BIGINT,
c_phone VARCHAR,
c_acctbal DECIMAL(15, 2),
c_mktsegment VARCHAR,
c_comment VARCHAR
