-- Work that waits for a slot, in the order in which it is charged: read without looking at the rest.

CREATE INDEX relics_ready ON relics (prefix, priority DESC, created, number, step, id)
    WHERE status = 'open' AND kind = 'task';
