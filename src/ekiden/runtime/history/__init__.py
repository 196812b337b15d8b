"""Operations on stored sessions: forks, rewinds, exports, imports and deletion."""
