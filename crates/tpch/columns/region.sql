r_regionkey BIGINT,
r_name VARCHAR,
r_comment VARCHAR
