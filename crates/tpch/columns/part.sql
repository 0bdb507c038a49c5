p_partkey BIGINT,
p_name VARCHAR,
p_mfgr VARCHAR,
p_brand VARCHAR,
p_type VARCHAR,
p_size BIGINT,
p_container VARCHAR,
p_retailprice DECIMAL(15, 2),
p_comment VARCHAR
