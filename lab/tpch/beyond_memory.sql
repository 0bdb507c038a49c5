-- Queries whose rows, groups or joined tables are larger than the memory that there is: TPC-H's tables, one query a block,
-- named in the comment before it. All have rows in an order, or one row.

-- all lines in the order of their prices
SELECT l_orderkey, l_linenumber, l_quantity, l_extendedprice FROM lineitem ORDER BY l_extendedprice, l_orderkey, l_linenumber

-- all lines in the order of their comments
SELECT l_orderkey, l_linenumber, l_comment FROM lineitem ORDER BY l_comment, l_orderkey, l_linenumber

-- lines with their orders, in the order of dates
SELECT l_orderkey, l_linenumber, o_orderdate, o_custkey, l_extendedprice
FROM lineitem JOIN orders ON l_orderkey = o_orderkey ORDER BY o_orderdate, l_orderkey, l_linenumber

-- ten lines far behind
SELECT l_orderkey, l_linenumber, l_extendedprice FROM lineitem
ORDER BY l_extendedprice DESC, l_orderkey, l_linenumber LIMIT 10 OFFSET 20000000

-- the rank of each line in its part
SELECT count(*), sum(l_orderkey * r) FROM
    (SELECT l_orderkey, rank() OVER (PARTITION BY l_partkey ORDER BY l_extendedprice, l_orderkey, l_linenumber) AS r FROM lineitem)

-- the place of each line
SELECT count(*), sum(l_linenumber * r) FROM
    (SELECT l_linenumber, row_number() OVER (ORDER BY l_shipdate, l_orderkey, l_linenumber) AS r FROM lineitem)

-- groups by order
SELECT l_orderkey, sum(l_quantity) AS quantity, count(*) AS lines FROM lineitem
GROUP BY l_orderkey ORDER BY quantity DESC, l_orderkey LIMIT 10

-- groups by comment
SELECT l_comment, count(*) AS lines, max(l_orderkey) AS last FROM lineitem GROUP BY l_comment ORDER BY lines DESC, l_comment LIMIT 10

-- different pairs of parts and suppliers
SELECT count(*) FROM (SELECT DISTINCT l_partkey, l_suppkey, l_shipdate FROM lineitem)

-- how many orders
SELECT count(DISTINCT l_orderkey), count(DISTINCT l_partkey) FROM lineitem

-- lines of the same order
SELECT count(*), sum(a.l_quantity - b.l_quantity) FROM lineitem a JOIN lineitem b
ON a.l_orderkey = b.l_orderkey AND a.l_linenumber = b.l_linenumber + 1

-- orders without a line of the kind
SELECT count(*), sum(o_totalprice) FROM orders WHERE NOT EXISTS
    (SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey AND l_extendedprice > o_totalprice / 2)
