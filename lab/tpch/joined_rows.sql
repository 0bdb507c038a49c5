-- Joins whose rows are wanted as they are: TPC-H's tables, one query a block, named in the comment before it.

-- few rows of two tables
SELECT l_orderkey, l_extendedprice, l_shipmode, o_custkey, o_orderdate, o_orderpriority
FROM lineitem JOIN orders ON l_orderkey = o_orderkey WHERE o_orderdate = DATE '1995-01-01' AND l_shipmode = 'AIR'

-- few rows of four tables
SELECT l_orderkey, l_extendedprice, p_brand, s_name, n_name
FROM lineitem JOIN part ON l_partkey = p_partkey JOIN supplier ON l_suppkey = s_suppkey JOIN nation ON s_nationkey = n_nationkey
WHERE p_brand = 'Brand#12' AND p_size = 5 AND n_name = 'FRANCE'

-- a tenth of the lines, 6 columns
SELECT l_orderkey, l_extendedprice, l_shipmode, o_custkey, o_orderdate, o_orderpriority
FROM lineitem JOIN orders ON l_orderkey = o_orderkey WHERE o_orderdate >= DATE '1995-01-01' AND o_orderdate < DATE '1995-09-01'

-- half of the lines, 6 columns
SELECT l_orderkey, l_extendedprice, l_shipmode, o_custkey, o_orderdate, o_orderpriority
FROM lineitem JOIN orders ON l_orderkey = o_orderkey WHERE o_orderdate >= DATE '1995-01-01'

-- comments of few lines
SELECT l_orderkey, l_comment, o_orderpriority FROM lineitem JOIN orders ON l_orderkey = o_orderkey
WHERE o_orderdate = DATE '1995-01-01'

-- comments of a tenth of the lines
SELECT l_orderkey, l_comment, o_orderpriority FROM lineitem JOIN orders ON l_orderkey = o_orderkey
WHERE o_orderdate >= DATE '1995-01-01' AND o_orderdate < DATE '1995-09-01'

-- comments of all lines
SELECT l_orderkey, l_comment, o_orderpriority FROM lineitem JOIN orders ON l_orderkey = o_orderkey

-- orders with their customers' addresses
SELECT o_orderkey, o_comment, c_name, c_address, c_comment FROM orders JOIN customer ON o_custkey = c_custkey
WHERE o_orderdate < DATE '1992-07-01'

-- all lines, 4 columns
SELECT l_orderkey, l_extendedprice, o_custkey, o_orderdate FROM lineitem JOIN orders ON l_orderkey = o_orderkey

-- all lines, 12 columns
SELECT l_orderkey, l_partkey, l_suppkey, l_quantity, l_extendedprice, l_discount, l_shipdate, l_shipmode, l_returnflag,
       o_custkey, o_orderdate, o_orderpriority
FROM lineitem JOIN orders ON l_orderkey = o_orderkey

-- orders with some line
SELECT o_orderkey, o_custkey, o_totalprice FROM orders
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem WHERE l_quantity = 50 AND l_discount = 0.1)

-- the ten dearest
SELECT l_orderkey, l_extendedprice, o_custkey FROM lineitem JOIN orders ON l_orderkey = o_orderkey
WHERE o_orderpriority = '1-URGENT' ORDER BY l_extendedprice DESC, l_orderkey LIMIT 10

-- customers, counted once each
SELECT count(DISTINCT o_custkey) FROM lineitem JOIN orders ON l_orderkey = o_orderkey
WHERE l_shipmode = 'AIR' AND o_orderdate < DATE '1993-01-01'

-- a median by priority
SELECT o_orderpriority, median(l_extendedprice) FROM lineitem JOIN orders ON l_orderkey = o_orderkey
WHERE l_shipmode = 'AIR' GROUP BY o_orderpriority

-- each customer's cheapest line
SELECT o_custkey, l_extendedprice FROM (
    SELECT o_custkey, l_extendedprice, row_number() OVER (PARTITION BY o_custkey ORDER BY l_extendedprice) AS place
    FROM lineitem JOIN orders ON l_orderkey = o_orderkey WHERE o_orderdate < DATE '1992-06-01'
) WHERE place = 1
