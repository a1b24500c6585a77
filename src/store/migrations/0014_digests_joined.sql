-- The digests that incidents joined last, in any channel.
CREATE INDEX digests_joined ON digests (joined_ms);
