-- Maps know how many entries they have, if changes have a bound for them.
ALTER TABLE {{m}}_meta ADD COLUMN entries int; -- NULL: they were not counted
DROP FUNCTION IF EXISTS {{m}}_change_each;
DROP FUNCTION IF EXISTS {{m}}_change;
