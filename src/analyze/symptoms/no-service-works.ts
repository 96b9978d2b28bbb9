import type {Family} from '../../model/family.ts';

/** The effect on a node that holds no rule of any Service of this family. */
export function noServiceWorks(family: Family): string {
  return `no Service works on this node${family === 'IPv6' ? ' over IPv6' : ''}`;
}
