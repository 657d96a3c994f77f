"""Transactions: the coordinator, who decides how each of them ends and sees to it that every partition hears of it."""
