//! What the demo asks: a short story of questions, each of which differs from the others.
//!
//! The order matters. Some questions are new to the cache and have to be answered from the files; most are narrower
//! than, or overlap with, what was asked before. The last names a new column on purpose: the cache cannot help there.

/// One question.
pub(super) struct Question {
    /// What is asked, in a few words.
    pub(super) title: &'static str,
    /// How it relates to what was asked before.
    pub(super) relation: &'static str,
    /// The same, in SQL. Paths are relative to the demo's folder.
    pub(super) sql: &'static str,
}

/// All questions, in order.
pub(super) const QUESTIONS: &[Question] = &[
    Question {
        title: "Orders by priority",
        relation: "the first question to a nested file",
        sql: "SELECT o_orderpriority AS priority, count(*) AS orders, sum(o_totalprice) AS total
FROM 'orders.ndjson'
WHERE o_totalprice BETWEEN 50000 AND 300000
GROUP BY o_orderpriority ORDER BY priority",
    },
    Question {
        title: "Mid-sized orders",
        relation: "a narrower range, another aggregate",
        sql: "SELECT o_orderpriority AS priority, avg(o_totalprice) AS average
FROM 'orders.ndjson'
WHERE o_totalprice >= 120000 AND o_totalprice < 180000
GROUP BY o_orderpriority ORDER BY priority",
    },
    Question {
        title: "The largest urgent orders",
        relation: "another range, and one more condition",
        sql: "SELECT o_totalprice AS total
FROM 'orders.ndjson'
WHERE o_totalprice > 280000 AND o_totalprice <= 300000 AND o_orderpriority = '1-URGENT'
ORDER BY total DESC LIMIT 5",
    },
    Question {
        title: "Small items by ship mode",
        relation: "the first question to the lists in the nested file",
        sql: "SELECT i.l_shipmode AS mode, count(*) AS items, sum(i.l_extendedprice) AS revenue
FROM 'orders.ndjson' AS o, UNNEST(o.lineitems) AS i
WHERE i.l_quantity <= 25
GROUP BY i.l_shipmode ORDER BY mode",
    },
    Question {
        title: "Tiny items by revenue",
        relation: "a narrower range of the same lists",
        sql: "SELECT i.l_shipmode AS mode, sum(i.l_extendedprice) AS revenue
FROM 'orders.ndjson' AS o, UNNEST(o.lineitems) AS i
WHERE i.l_quantity BETWEEN 5 AND 9
GROUP BY i.l_shipmode ORDER BY revenue DESC",
    },
    Question {
        title: "Revenue of three years",
        relation: "the first question to two CSV files, joined",
        sql: "SELECT o.o_orderpriority AS priority, count(*) AS items,
       sum(l.l_extendedprice * (1 - l.l_discount)) AS revenue
FROM 'orders.csv' AS o JOIN 'lineitem.csv' AS l ON o.o_orderkey = l.l_orderkey
WHERE o.o_orderdate >= DATE '1994-01-01' AND o.o_orderdate < DATE '1997-01-01' AND l.l_quantity < 40
GROUP BY o.o_orderpriority ORDER BY priority",
    },
    Question {
        title: "Revenue of one year",
        relation: "the same join, narrower on both sides",
        sql: "SELECT o.o_orderpriority AS priority, sum(l.l_extendedprice * (1 - l.l_discount)) AS revenue
FROM 'orders.csv' AS o JOIN 'lineitem.csv' AS l ON o.o_orderkey = l.l_orderkey
WHERE o.o_orderdate >= DATE '1995-01-01' AND o.o_orderdate < DATE '1996-01-01' AND l.l_quantity < 20
GROUP BY o.o_orderpriority ORDER BY priority",
    },
    Question {
        title: "Items by quantity",
        relation: "no join, but rows that the join has left behind",
        sql: "SELECT l_quantity AS quantity, count(*) AS items, sum(l_extendedprice) AS revenue
FROM 'lineitem.csv'
WHERE l_quantity < 12
GROUP BY l_quantity ORDER BY quantity",
    },
    Question {
        title: "Nearly all orders",
        relation: "a wider range than any before",
        sql: "SELECT o_orderpriority AS priority, max(o_totalprice) AS largest
FROM 'orders.ndjson'
WHERE o_totalprice > 1000
GROUP BY o_orderpriority ORDER BY priority",
    },
    Question {
        title: "Orders by status",
        relation: "a column that no question has named before",
        sql: "SELECT o_orderstatus AS status, count(*) AS orders, avg(o_totalprice) AS average
FROM 'orders.ndjson'
WHERE o_totalprice BETWEEN 100000 AND 200000
GROUP BY o_orderstatus ORDER BY status",
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::demo::data_set::DemoFile;

    #[test]
    fn no_question_is_asked_twice_and_every_file_is_used() {
        let texts: BTreeSet<&str> = QUESTIONS.iter().map(|question| question.sql).collect();
        assert_eq!(texts.len(), QUESTIONS.len());
        for file in DemoFile::ALL {
            assert!(texts.iter().any(|sql| sql.contains(&format!("'{}'", file.name()))), "{}", file.name());
        }
    }

    #[test]
    fn answers_have_an_order_so_that_they_can_be_compared() {
        assert!(QUESTIONS.iter().all(|question| question.sql.contains("ORDER BY")));
    }
}
